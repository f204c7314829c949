"""The nodes of a cluster: how many workers each has room for, and whether it has what the work needs."""

import platform
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from bigain.cluster.connect import ClusterOptions

PACKAGES = ("bigain", "torch", "diffusers", "transformers", "numpy", "safetensors", "pillow")
SECONDS = 120  # for a node to answer


class Node(NamedTuple):
    """A node that is alive."""

    id: str
    name: str
    room: int  # for so many workers

    def __str__(self) -> str:
        return self.name


def alive(ray: ModuleType, options: ClusterOptions) -> list[Node]:
    """All nodes with room for a worker."""
    found = []
    for node in ray.nodes():
        resources = node.get("Resources", {})
        room = int(resources.get("CPU", 0) // options.threads if options.kind == "cpu" else resources.get("GPU", 0))
        if node["Alive"] and room:
            found.append(Node(node["NodeID"], title(node), room))
    return found


def title(node: dict[str, Any]) -> str:
    """`worker-2 (10.0.0.5)`: the name that it was started with or that of its host, and its address."""
    address = node["NodeManagerAddress"]
    name = node.get("NodeName") or address
    return f"{node['NodeManagerHostname'] if name == address else name} ({address})"


def on_node(ray: ModuleType, node: Node) -> Any:
    """The scheduling strategy for this node and no other."""
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)


def make_probe() -> Callable[[Sequence[str]], dict[str, str | None]]:
    """A function that travels by value, as nothing of ours may be there: versions by name, None for what is missing."""

    def probe(names: Sequence[str]) -> dict[str, str | None]:
        import hashlib
        import importlib.util
        import platform
        from importlib.metadata import PackageNotFoundError, version
        from pathlib import Path

        found: dict[str, str | None] = {"python": ".".join(platform.python_version_tuple()[:2])}
        for name in names:
            try:
                found[name] = version(name).partition("+")[0]  # builds of one version for other devices
            except PackageNotFoundError:
                found[name] = None
        spec = importlib.util.find_spec("bigain")
        if spec is not None and spec.origin is not None:
            hasher = hashlib.sha256()
            for path in sorted(Path(spec.origin).parent.rglob("*.py")):
                hasher.update(path.read_bytes())
            found["code of bigain"] = hasher.hexdigest()[:12]
        return found

    return probe


def complaint(own: dict[str, str | None], there: dict[str, str | None]) -> str | None:
    """What a node lacks or has in another version, or None."""
    missing = [name for name in own if there.get(name) is None]
    other = [
        f"{name} {there[name]} instead of {own[name]}"
        for name in own
        if name not in missing and there[name] != own[name]
    ]
    parts = ([f"has no {', '.join(missing)}"] if missing else []) + ([f"has {', '.join(other)}"] if other else [])
    return " and ".join(parts) or None


def unfit(ray: ModuleType, nodes: Sequence[Node]) -> dict[str, str]:
    """Reasons by id of the nodes whose packages are not those of this machine."""
    probe = make_probe()
    own = probe(PACKAGES)
    remote = ray.remote(probe)
    asked = {
        node.id: remote.options(num_cpus=0, max_retries=0, scheduling_strategy=on_node(ray, node)).remote(PACKAGES)
        for node in nodes
    }
    found = {}
    for node in nodes:
        try:
            reason = complaint(own, ray.get(asked[node.id], timeout=SECONDS))
        except ray.exceptions.GetTimeoutError:
            reason = f"did not answer within {SECONDS} s"
        except ray.exceptions.RayError as error:
            reason = f"cannot be asked ({first_line(error)})"
        if reason is not None:
            found[node.id] = reason
    return found


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def here() -> str:
    return platform.node()
