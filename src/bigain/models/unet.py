"""U-Nets of Stable Diffusion 1.x, 2.x and XL, and their ControlNets."""

from typing import Any

from bigain.models.family import FAMILIES, Example, Family, Inputs, native_size
from bigain.models.site import Site, block_sites


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


def inputs(example: Example) -> Inputs:
    config, kwargs = example.model.config, dict[str, Any]()
    latents = example.random(config["in_channels"], example.height, example.width)
    if config.get("addition_embed_type") == "text_time":
        pooled = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
        kwargs["added_cond_kwargs"] = {"text_embeds": example.random(pooled), "time_ids": example.random(6)}
    if "conditioning_channels" in config:  # a ControlNet
        factor = 2 ** (len(config["conditioning_embedding_out_channels"]) - 1)
        sides = factor * example.height, factor * example.width
        kwargs["controlnet_cond"] = example.random(config["conditioning_channels"], *sides)
    text = example.random(example.text_tokens, config["cross_attention_dim"])
    return Inputs((latents, example.timesteps(), text), kwargs)


FAMILIES.append(
    Family(
        models=("UNet2DConditionModel", "ControlNetModel"),
        latents="sample",
        sites=sites,
        default=finest,
        metric="block",
        grid=lambda model, argument: None,
        inputs=inputs,
        spatial=True,
        title="Stable Diffusion 1.x, 2.x, XL",
    )
)
