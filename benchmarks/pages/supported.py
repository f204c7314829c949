"""Which models are supported, and for what: from the families and the pipelines."""

import inspect
from collections import Counter

import diffusers
from text import table

from bigain.compression import sites
from bigain.denoisers.pipelines import PIPELINES
from bigain.models import FAMILIES, Family
from bigain.models.architectures import build_meta
from bigain.models.family import REFUSED
from bigain.models.named import ARCHITECTURES

YES, NO = "yes", "–"


def short() -> str:
    """For README.md: what `compress` alone knows shares a row."""
    known = {label: has_denoiser(model) for label, model, _ in models()}
    alone = ", ".join(label for label, both in known.items() if not both)
    rows = [[label, YES, YES, YES] for label, both in known.items() if both]
    rows += [[alone, YES, NO, NO]] if alone else []
    return table(["model family", "compress", "generate", "classify"], rows)


def whole() -> str:
    """For the documentation: each family with its default sites, and what is refused."""
    rows = [
        [label, default_sites(family), *[YES if has_denoiser(model) else NO] * 2] for label, model, family in models()
    ] + [[f"`{model}`", f"no: {reason}", NO, NO] for model, reason in REFUSED.items()]
    return table(["model family", "compress: default sites", "generate", "classify"], rows)


def models() -> list[tuple[str, str, Family]]:
    """Name, class and family of all models, in the order of the architectures by name."""
    order = list(dict.fromkeys(known.model for known in ARCHITECTURES.values()))
    families = sorted(FAMILIES, key=lambda family: order.index(family.models[0]))
    found = []
    for family in families:
        first, *others = family.models
        found.append((family.title, first, family))
        found += [(other.removesuffix("Model"), other, family) for other in others]
    return found


def has_denoiser(model: str) -> bool:
    """Whether a pipeline with a network of this class can classify and generate."""
    return any(network_of(name) == model for name in PIPELINES)


def network_of(pipeline: str) -> str:
    """The class of a pipeline's network, as its `__init__` declares it."""
    part = PIPELINES[pipeline].models[0]
    declared = inspect.signature(getattr(diffusers, pipeline).__init__).parameters[part].annotation
    return str(getattr(declared, "__name__", declared))


def default_sites(family: Family) -> str:
    """Of the first published architecture of a family."""
    name = next(name for name, known in ARCHITECTURES.items() if known.model in family.models)
    model = build_meta(name)
    if family.spatial:
        return "the self-attentions of the finest grid"
    blocks = len({site.block for site in family.sites(model)})
    chosen = Counter({site.block: site.part for site in sites(model)}.values())
    parts = " and ".join(f"{count} {part}" for part, count in chosen.items() if part in ("double", "single"))
    found = f"self-attention in the first {chosen.total()} of {blocks} blocks"
    return f"{found}: {parts}" if len(chosen) > 1 else found
