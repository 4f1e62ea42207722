"""The food-logging assistant as a page: show a plate, ask one or two models, log it.

Gradio serves it, and is imported when the page is made: only those who open it need it.
"""

from importlib import metadata

from helpers import runtime
from helpers.app import food_page
from helpers.app.meal_log import MealLog
from helpers.tasks.food import food_pictures

LARGEST_FILE = 16_000_000  # bytes
FONT = ["system-ui", "sans-serif"]  # the reader's own: none is fetched
LOOK = {  # white letters on this green differ by 5.5 to 1
    "button_primary_background_fill": "*primary_700",
    "button_primary_background_fill_hover": "*primary_800",
    "button_primary_background_fill_dark": "*primary_700",
    "button_primary_text_color": "white",
    "block_title_background_fill": "none",
    "block_title_text_color": "*body_text_color",
    "block_title_padding": "0",
    "block_label_background_fill": "none",
    "block_label_text_color": "*body_text_color",
    "input_border_width": "1px",
    "input_border_color": "*neutral_500",
}
CSS = """
.gradio-container {max-width:1180px!important;width:100%!important;margin:auto}
h1 {font-size:1.7rem;font-weight:700;margin:0} h2 {font-size:1.15rem;margin:.2rem 0}
:is(#photo, #drawings) label {position:static;box-shadow:none;border:0}
#photo, #photo .image-container {height:auto!important}
#photo button {min-width:28px;min-height:28px}
.gradio-container :is(input, textarea) {min-height:28px;min-width:28px}
#photo img {width:100%;height:230px;object-fit:contain}
#drawings .grid-wrap {overflow:visible;height:auto;max-height:none;min-height:0}
#drawings .grid-container {grid-template-columns:repeat(4,minmax(0,1fr))!important;
  gap:6px;padding:0;width:100%}
#drawings :is(.gallery-item, .thumbnail-item) {width:100%;min-width:0}
#drawings .caption-label {display:none}
.food-chat {background:var(--background-fill-secondary);border-radius:12px;padding:12px;
  overflow-wrap:anywhere}
.food-chat p {margin:4px 0}
.food-asked {background:var(--primary-100);border-radius:12px 12px 2px;padding:8px 12px;
  margin:10px 0 10px auto;width:fit-content;max-width:85%;color:#000}
.food-asked img {border-radius:6px}
.food-step {border:1px solid var(--border-color-primary);border-radius:8px;margin:6px 0;
  padding:6px 10px;background:var(--background-fill-primary)}
.food-step summary {cursor:pointer;min-height:28px}
.food-step p {white-space:pre-wrap;font-size:.85rem}
.food-answer {font-size:1.15rem;font-weight:600}
.food-spent {font-size:.85rem;opacity:.8}
.food-alert {border-left:4px solid #D55E00;padding:2px 10px}
.food-table, .food-table tr {border:0!important}
.food-table {border-collapse:collapse;width:100%;margin:0!important}
.food-table caption {text-align:left;font-weight:600}
.food-table :is(td,th) {padding:3px 8px 3px 0!important;text-align:left;
  font-weight:400;border:0!important;
  border-bottom:1px solid var(--border-color-primary)!important}
:is(summary,button,input,textarea):focus-visible {outline:3px solid #D55E00!important;
  outline-offset:2px}
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
    themes = _gradio().themes
    theme = themes.Soft(primary_hue="emerald", neutral_hue="stone", font=FONT)
    _, address, public = page.launch(
        share=share,
        server_name=host,
        server_port=port,
        prevent_thread_lock=not wait,
        theme=theme.set(**LOOK),
        css=CSS,
        max_file_size=LARGEST_FILE,
        footer_links=[],
        height=900,
        quiet=not wait,
        ssr_mode=False,
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


def drawn(count=8):
    """The pictures of `example_rows`, by name."""
    return {f"drawing {i + 1}": r["image"] for i, r in enumerate(example_rows(count))}
