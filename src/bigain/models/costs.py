"""What a site costs, from the sizes of its weights."""

from typing import Any

from torch import nn

from bigain.models.site import Site


def site_flops(site: Site, queries: int, keys: int, text: int = 0) -> int:
    """Multiply-adds counted twice, for one sample, as torch's flop counter does, adapters apart.

    `queries` and `keys` are tokens of the image; of a cross-attention, `keys` are the text. `text` is the number of
    text tokens that take part in a joint attention, or stand before the image.
    """
    module: Any = site.module
    beside = text if site.stream is not None and site.stream.text == "first" else 0
    if site.kind == "mlp":
        layers = ((name, part) for name, part in module.named_modules() if isinstance(part, nn.Linear))
        return 2 * (queries + beside) * sum(part.weight.numel() for name, part in layers if "lora_" not in name)
    attended = 2 * (queries + text) * (keys + text) * module.inner_dim
    if hasattr(module, "to_qkv_mlp_proj"):  # a parallel block of FLUX.2: its MLP is in the same matrices
        return int(2 * ((queries + text) * (weights(module.to_qkv_mlp_proj) + weights(module.to_out)) + attended))
    out = weights(module.to_out[0]) if getattr(module, "to_out", None) is not None else 0
    projected = (queries + beside) * (weights(module.to_q) + out)
    projected += (keys + beside) * (weights(module.to_k) + weights(module.to_v))
    if text > beside:
        names = ("add_q_proj", "add_k_proj", "add_v_proj", "to_add_out")
        projected += text * sum(weights(getattr(module, name)) for name in names if getattr(module, name, None))
    return int(2 * (projected + attended))


def site_width(site: Site) -> int:
    """Channels of the tokens that enter a site."""
    module: Any = site.module
    if site.kind == "mlp":
        return int(next(part for part in module.modules() if isinstance(part, nn.Linear)).in_features)
    first = getattr(module, "to_qkv_mlp_proj", None) or module.to_q
    return int(getattr(first, "base_layer", first).in_features)


def weights(linear: Any) -> int:
    """Number of weights of a linear layer, of the layer below if an adapter wraps it."""
    return int(getattr(linear, "base_layer", linear).weight.numel())
