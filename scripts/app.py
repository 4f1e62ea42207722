"""`make app`: the food-logging assistant as a web page of this machine.

    python -m scripts.app [--port 7860] [--server NAME ADDRESS MODEL [KEY]]
                          [--share]

`--server` offers one more model, behind an OpenAI-compatible server; it may be given
several times. KEY is the name of an environment variable that holds the server's key.
`--share` lets anybody with the link see page and diary. `--host 0.0.0.0` is for a
container: else nobody but this machine reaches the page.
"""

import argparse
import os

from helpers.app import models, page


def main(arguments=None):
    """Serves the page until it is stopped."""
    parser = argparse.ArgumentParser("scripts.app", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int)
    parser.add_argument("--server", action="append", nargs="+", default=[])
    parser.add_argument("--share", action="store_true")
    chosen = parser.parse_args(arguments)
    choices = models.course_models()
    for server in chosen.server:
        if len(server) not in (3, 4):
            parser.error("--server takes NAME ADDRESS MODEL, and perhaps KEY.")
        name, address, model, *variables = server
        keys = [os.environ.get(variable) for variable in variables]
        if None in keys:
            parser.error(f"--server {name}: {variables[0]} is not in the environment.")
        choices[name] = models.on_server(address, model, *keys)
    where = {"host": chosen.host, "port": chosen.port, "share": chosen.share}
    page.launch(page.app(choices), **where, wait=True)


if __name__ == "__main__":
    main()
