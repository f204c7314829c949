"""Model families; a new one is a new file and a line here."""

from bigain.models import dit, unet
from bigain.models.family import FAMILIES, Family, family_of, find_model
from bigain.models.site import Site, Where

__all__ = ["FAMILIES", "Family", "Site", "Where", "dit", "family_of", "find_model", "unet"]
