"""The food-logging assistant as a page: show a plate, ask one or two models, log it.

Gradio serves it, and is imported when the page is made: only those who open it need it.
"""

from importlib import metadata

from helpers.app import food_page
from helpers.app.meal_log import MealLog
from helpers.tasks.food import food_pictures

LARGEST_FILE = 16_000_000  # bytes
CSS = """
.gradio-container {max-width:1180px!important;margin:auto}
h1 {font-size:1.7rem;font-weight:700;margin:0} h2 {font-size:1.15rem;margin:.2rem 0}
#photo img {width:100%;height:100%;object-fit:contain;image-rendering:auto}
#chats .message {white-space:pre-wrap;overflow-wrap:anywhere}
.food-table {border-collapse:collapse;width:100%}
.food-table caption {text-align:left;font-weight:600}
.food-table td, .food-table th {padding:3px 8px 3px 0;text-align:left;font-weight:400;
  border-bottom:1px solid var(--border-color-primary)}
.food-alert {border-left:4px solid #D55E00;padding:2px 10px}
"""


def _gradio():
    """Gradio, or an ImportError that says how to get it."""
    try:
        import gradio
    except ImportError as error:
        raise ImportError(
            "The page needs the package gradio, which is not installed. Install the "
            "course with `pip install -e '.[app]'`."
        ) from error
    if int(metadata.version("gradio").split(".")[0]) < 6:
        raise ImportError(
            f"The page needs gradio 6, here is {metadata.version('gradio')}. Run `pip "
            "install -U 'gradio>=6.0'`, and restart the kernel."
        )
    return gradio


def app(models, *, log=None, examples=None):
    """The assistant as a page, to be shown by `launch`.

    Args:
      models: {name: `food_models.Choice`}; a server can be chosen besides.
      log: a `MealLog`, shared by all who open the page; None: that of the build folder.
      examples: {name: picture, uint8 (H, W, 3)}; None: drawn ones.
    Returns:
      A gradio.Blocks.
    Raises:
      ImportError: gradio is missing or too old; says what to do.
    """
    examples = examples or drawn()
    return food_page.Page(_gradio(), models, log or MealLog(), examples).blocks


def launch(page, *, share=False, host="127.0.0.1", port=None, wait=False):
    """Serves a page to this machine; in a notebook, it stands below the cell, too.

    Args:
      page: of `app`.
      share: whether anybody with a link may see page and diary, through Gradio's
        servers; Kaggle needs it.
      host, port: to listen at; None: a port that is free.
      wait: whether to go on until it is stopped.
    Returns:
      Its address.
    """
    theme = (
        _gradio()
        .themes.Soft(
            primary_hue="emerald",
            neutral_hue="stone",
            font=["system-ui", "sans-serif"],
            font_mono=["ui-monospace", "monospace"],
        )
        .set(
            button_primary_background_fill="*primary_700",
            button_primary_background_fill_hover="*primary_800",
            button_primary_background_fill_dark="*primary_700",
            button_primary_text_color="white",
            block_label_text_color="*neutral_700",
            body_text_color_subdued="*neutral_600",
        )
    )
    _, address, public = page.launch(
        share=share,
        server_name=host,
        server_port=port,
        prevent_thread_lock=not wait,
        theme=theme,
        css=CSS,
        max_file_size=LARGEST_FILE,
        footer_links=[],
        height=900,
        quiet=not wait,
        ssr_mode=False,
        enable_monitoring=False,
    )
    return public or address


def example_rows(count=8):
    """Test rows of `food_pictures`: of one food or none first, then of two."""
    rows = food_pictures.generate(
        count, seed=14, split="test", levels=(1, 1, 2), no_food=0.15
    )
    return sorted(rows, key=lambda row: row["level"])


def drawn(count=8):
    """The pictures of `example_rows`, by name."""
    return {f"drawing {i + 1}": r["image"] for i, r in enumerate(example_rows(count))}
