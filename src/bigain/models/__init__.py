"""Model families; a new one is a new file and a line here."""

from bigain.models import aura_flow, dit, flux, flux2, hunyuan, qwen_image, sana, sd3, unet
from bigain.models.family import FAMILIES, Family, family_of, find_model
from bigain.models.site import Site, Where

__all__ = [
    "FAMILIES",
    "Family",
    "Site",
    "Where",
    "aura_flow",
    "dit",
    "family_of",
    "find_model",
    "flux",
    "flux2",
    "hunyuan",
    "qwen_image",
    "sana",
    "sd3",
    "unet",
]
