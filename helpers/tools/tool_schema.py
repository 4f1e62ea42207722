"""The arguments of a call, held to the tool's JSON schema.

Of JSON Schema this knows what tools need: the types, limits of size and value, `enum`,
lists and nested objects. A schema with any other keyword is refused, for a keyword that
nobody checks is a promise to the tool that nobody keeps. Arguments that a schema does
not name are refused too. Texts, lists and numbers have limits where it sets none.
"""

import sys

LONGEST_TEXT = 2_000  # characters, where there is no maxLength
MOST_ITEMS = 100  # where there is no maxItems

_ANY = {"type", "description", "title", "default", "examples", "enum"}
_BOUNDS = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}
_OBJECT = {"properties", "required", "additionalProperties"}
_KEYWORDS = {
    "string": {"minLength", "maxLength"},
    "number": _BOUNDS,
    "integer": _BOUNDS,
    "boolean": set(),
    "null": set(),
    "array": {"items", "minItems", "maxItems"},
    "object": _OBJECT,
}
_NUMERALS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def check(schema):
    """Refuses the schema of a function that cannot be held to.

    Args:
      schema: {"type": "function", "function": {"name", "description", "parameters"}}.
    Raises:
      ValueError: it has another form, or a keyword that is not checked here.
    """
    function = schema.get("function") if isinstance(schema, dict) else None
    named = isinstance(function, dict) and isinstance(function.get("name"), str)
    if function is None or not named or schema.get("type") != "function":
        raise ValueError(
            'a tool\'s schema is {"type": "function", "function": {"name": ..., '
            f'"description": ..., "parameters": ...}}}}, not {schema!r:.200}.'
        )
    name, parameters = function["name"], function.get("parameters")
    _check_name(name)
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        raise ValueError(f'the parameters of {name} are no {{"type": "object", ...}}.')
    _check(parameters, name)


def _check(schema, where):
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str) or kind not in _KEYWORDS:
        raise ValueError(f"{where} has no type of {', '.join(_KEYWORDS)}: {schema!r}.")
    if unknown := sorted(set(schema) - _ANY - _KEYWORDS[kind]):
        raise ValueError(
            f"{where} is {kind} with {', '.join(unknown)}, which is not checked here: "
            "check it where the tool runs, and say it in the description."
        )
    if schema.get("additionalProperties", False) is not False:
        raise ValueError(f"{where} takes any further properties: name them all.")
    properties = schema.get("properties", {})
    if missing := set(schema.get("required", ())) - set(properties):
        raise ValueError(f"{where} requires {sorted(missing)}, which it does not name.")
    for name, inner in properties.items():
        _check_name(name)
        _check(inner, f"{name} of {where}")
    if kind == "array":
        _check(schema.get("items"), f"an item of {where}")


def _check_name(name):
    """Refuses a name that not every family's grammar can write."""
    if not (name.isidentifier() and name.isascii() and len(name) <= 64):
        raise ValueError(f"a name is up to 64 letters, digits and _, not {name!r:.80}.")


def problem(name, schema, value):
    """What is wrong with a value, in words for the model that sent it; None: nothing.

    Args:
      name: of the value, to begin the sentence with.
      schema: one that `check` has passed.
      value: anything.
    """
    kind = schema["type"]
    if kind == "object":
        return _object_problem(name, schema, value)
    if "enum" in schema:
        same = [value == v and type(value) is type(v) for v in schema["enum"]]
        listed = ", ".join(map(str, schema["enum"]))
        return None if any(same) else f"{name} must be one of {listed}."
    if not _FITS[kind](schema, value):
        return f"{name} must be {_SAID[kind](schema)}."
    if kind == "array":
        items = enumerate(value)
        found = (problem(f"{name}[{i}]", schema["items"], item) for i, item in items)
        return next(filter(None, found), None)
    return None


def _object_problem(name, schema, value):
    properties, required = schema.get("properties", {}), schema.get("required", ())
    keys = set(value) if isinstance(value, dict) else None
    if keys is None or not set(required) <= keys <= set(properties):
        return f"{name} takes {_taken(list(properties), list(required))}."
    found = (problem(key, properties[key], member) for key, member in value.items())
    return next(filter(None, found), None)


def _taken(names, required):
    """ "exactly two arguments, food and grams", or what is needed and what may come."""
    optional = [name for name in names if name not in required]
    if optional:
        needed = f"{_listed(required)}, and may take " if required else "nothing but "
        return needed + _listed(optional)
    count = len(required)
    numeral = _NUMERALS[count] if count < len(_NUMERALS) else str(count)
    noun = f"exactly {numeral} argument{'s' * (count != 1)}"
    return f"{noun}, {_listed(required)}" if required else "no arguments"


def _listed(names):
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _fits_text(schema, value):
    if not isinstance(value, str):
        return False
    longest = schema.get("maxLength", LONGEST_TEXT)
    if not schema.get("minLength", 0) <= len(value) <= longest:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half a character
        return False
    return True


def _fits_number(schema, value):
    whole = schema["type"] == "integer"
    number = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, number):
        return False
    return (
        abs(value) <= sys.float_info.max  # neither infinite nor NaN
        and value >= schema.get("minimum", value)
        and value <= schema.get("maximum", value)
        and not value <= schema.get("exclusiveMinimum", -float("inf"))
        and not value >= schema.get("exclusiveMaximum", float("inf"))
    )


def _fits_list(schema, value):
    most = schema.get("maxItems", MOST_ITEMS)
    return isinstance(value, list) and schema.get("minItems", 0) <= len(value) <= most


def _said_text(schema):
    least, most = schema.get("minLength", 0), schema.get("maxLength", LONGEST_TEXT)
    return f"text of {f'{least} to' if least else 'up to'} {most} letters"


def _said_number(schema):
    words = {"minimum": "at least", "exclusiveMinimum": "above"}
    words |= {"maximum": "up to", "exclusiveMaximum": "below"}
    bounds = [f"{word} {schema[key]}" for key, word in words.items() if key in schema]
    kind = "a whole number" if schema["type"] == "integer" else "a number"
    return f"{' '.join((kind, ' and '.join(bounds))).strip()}, without quotes"


def _said_list(schema):
    least, most = schema.get("minItems", 0), schema.get("maxItems", MOST_ITEMS)
    return f"a list of {f'{least} to' if least else 'up to'} {most}"


_FITS = {
    "string": _fits_text,
    "number": _fits_number,
    "integer": _fits_number,
    "boolean": lambda schema, value: isinstance(value, bool),
    "null": lambda schema, value: value is None,
    "array": _fits_list,
}
_SAID = {
    "string": _said_text,
    "number": _said_number,
    "integer": _said_number,
    "boolean": lambda schema: "true or false",
    "null": lambda schema: "null",
    "array": _said_list,
}
