"""`bigain studio`."""

from pathlib import Path
from typing import Annotated

import typer

from bigain.cli.console import print_json, say
from bigain.cli.main import app, examples
from bigain.cli.options import Model, Threads, json_of


@app.command(epilog=examples("bigain studio", "bigain studio --model my/sd2 --port 8000 --records benchmarks/results"))
def studio(
    model: Model = "fashion-unet",
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on; 0 for any free one.")] = 7860,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    records: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder with further records (.sqlite) to compare.")
    ] = None,
    threads: Threads = None,
    as_json: Annotated[bool, json_of("{url: the address, as soon as it answers}")] = False,
) -> None:
    """See it in the browser: classify, look inside, generate and compare, with and without compression.

    Serves a page on this machine until Ctrl-C. Bundled models need no download.
    """
    from bigain.studio.options import StudioOptions

    options = StudioOptions(model, host, port, records)
    options.check()

    from bigain.studio.server import serve

    if as_json:
        serve(options, lambda url: print_json({"url": url}))
        return
    say("starting …")
    serve(options, lambda url: say(f"open {url}, and press Ctrl-C to stop"))
