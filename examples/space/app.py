"""The studio as a Hugging Face Space, or behind any server: `python app.py`."""

import os

from bigain.studio.options import StudioOptions
from bigain.studio.server import serve

serve(StudioOptions(host="0.0.0.0", port=int(os.environ.get("PORT", "7860"))), say=print)
