"""U-Nets of Stable Diffusion 1.x, 2.x and XL, and their ControlNets."""

from typing import Any

from bigain.models.family import FAMILIES, Family
from bigain.models.site import Site, block_sites, native_size


def sites(model: Any) -> list[Site]:
    """Sites in the order of the forward pass."""
    found: list[Site] = []
    height, width = native_size(model)
    downsample = 1

    def visit(part: str, name: str, module: Any) -> None:
        for i, transformer in enumerate(getattr(module, "attentions", None) or ()):
            if type(transformer).__name__ != "Transformer2DModel":
                raise TypeError(f"{name}.attentions.{i} is a {type(transformer).__name__}, not a Transformer2DModel")
            for j, block in enumerate(transformer.transformer_blocks):
                index = len({site.block for site in found})
                tokens = (height // downsample) * (width // downsample)
                label = f"{name}.attentions.{i}.transformer_blocks.{j}"
                found.extend(block_sites(label, block, part=part, downsample=downsample, index=index, tokens=tokens))

    for i, block in enumerate(model.down_blocks):
        visit("down", f"down_blocks.{i}", block)
        downsample *= 2 if getattr(block, "downsamplers", None) else 1
    visit("mid", "mid_block", model.mid_block)
    for i, block in enumerate(getattr(model, "up_blocks", ())):
        visit("up", f"up_blocks.{i}", block)
        downsample //= 2 if getattr(block, "upsamplers", None) else 1
    return found


def finest(found: list[Site]) -> Any:
    downsample = min((site.downsample for site in found if site.kind == "self"), default=1)
    return lambda site: site.downsample == downsample


FAMILIES.append(
    Family(
        models=("UNet2DConditionModel", "ControlNetModel"),
        latents="sample",
        sites=sites,
        default=finest,
        metric="block",
        grid=lambda model, latents: None,
        spatial=True,
    )
)
