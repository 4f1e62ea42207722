"""The food-logging assistant as a page: show a plate, ask one or two models, log it.

Gradio serves it, and is imported when the page is made: only those who open it need it.
"""

import pathlib

from helpers import runtime
from helpers.app import food_page
from helpers.app.meal_log import MealLog
from helpers.tasks.food import food_pictures

LARGEST_FILE = 16_000_000  # bytes
FONT = ["system-ui", "sans-serif"]  # the reader's own: none is fetched
CSS = pathlib.Path(__file__).with_name("food_app.css")


def _gradio():
    """Gradio, or an ImportError that says how to get it."""
    try:
        import gradio

        if int(gradio.__version__.split(".")[0]) < 6:
            raise ImportError(f"gradio {gradio.__version__} is older.")
    except ImportError as error:
        raise ImportError(
            "The page needs the package gradio, 6.0 or newer. Install it with `pip "
            f"install -U 'gradio>=6.0'`, and restart the kernel. {error}"
        ) from error
    return gradio


def app(models, *, log=None, examples=None):
    """The assistant as a page, to be shown by `launch`.

    Args:
      models: {name: `food_models.Choice`}, the first of which is chosen at first.
      log: a `MealLog`, shared by all who open the page; None: that of the build folder.
      examples: pictures, uint8 (H, W, 3); None: drawn ones.
    Returns:
      A gradio.Blocks.
    Raises:
      ImportError: gradio is missing or too old; says what to do.
    """
    shown = examples or [row["image"] for row in example_rows()]
    return food_page.Page(_gradio(), models, log or MealLog(), shown).blocks


def launch(page, *, share=False, host="127.0.0.1", port=None, wait=False):
    """Serves a page to this machine; on Colab and Kaggle it stands below the cell.

    Args:
      page: of `app`.
      share: whether anybody with a link may see page and diary, through Gradio's
        servers; Kaggle needs it.
      host, port: to listen at; None: a port that is free.
      wait: whether to go on until it is stopped.
    Returns:
      Its address.
    """
    soft = _gradio().themes.Soft
    _, address, public = page.launch(
        share=share,
        server_name=host,
        server_port=port,
        prevent_thread_lock=not wait,
        theme=soft(primary_hue="emerald", neutral_hue="stone", font=FONT),
        css_paths=CSS,
        max_file_size=LARGEST_FILE,
        footer_links=[],
        height=900,
        quiet=not wait,
        enable_monitoring=False,
        inline=runtime.where() != "laptop",
    )
    return public or address


def example_rows(count=8):
    """Test rows of `food_pictures`: of one food or none first, then of two."""
    rows = food_pictures.generate(
        count, seed=14, split="test", levels=(1, 1, 2), no_food=0.15
    )
    return sorted(rows, key=lambda row: row["level"])
