"""What templates print is escaped, each expression for its context."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import TemplateSyntaxError, UndefinedError
from markupsafe import Markup

from pumice.ui import pages
from pumice.ui.markup import attribute_text, text_markup

UI = Path(pages.__file__).parent
TEMPLATES = sorted(path.name for path in (UI / "templates").iterdir())
HOSTILE = '"><script>alert(1)</script>\x1b\u202e'


def draw(source: str, **values: object) -> str:
    return pages.ENVIRONMENT.from_string(source).render(values)


@pytest.mark.parametrize(
    ("source", "drawn"),
    [
        pytest.param("<b>{{ x }}</b>", '<b>&lt;a&gt;<span class="ctl">ESC</span></b>', id="text"),
        pytest.param('<b title="{{ x }}"></b>', '<b title="&lt;a&gt;[ESC]"></b>', id="attribute"),
        pytest.param("<b title='{{ x }}'></b>", "<b title='&lt;a&gt;[ESC]'></b>", id="single quotes"),
        pytest.param("<title>{{ x }}</title>", "<title>&lt;a&gt;[ESC]</title>", id="title"),
        pytest.param("<option>{{ x }}</option>", "<option>&lt;a&gt;[ESC]</option>", id="option"),
        pytest.param('<b>{{ x if x else "" }}</b>', '<b>&lt;a&gt;<span class="ctl">ESC</span></b>', id="condition"),
        pytest.param('<a{% if x %} id="{{ x }}"{% endif %}>', '<a id="&lt;a&gt;[ESC]">', id="optional attribute"),
        pytest.param("{% macro m(y) %}<i>{{ y }}</i>{% endmacro %}<b>{{ m(x) }}</b>",
                     '<b><i>&lt;a&gt;<span class="ctl">ESC</span></i></b>', id="macro"),
        pytest.param('<svg>\n  <rect x="{{ 1.0 }}" y="{{ 2 }}"\n    width="{{ 1 / 3 }}"></rect>\n</svg>',
                     '<svg><rect x="1" y="2" width="0.333333"></rect></svg>', id="numbers and line breaks"),
        pytest.param("<p>{{ none }}</p>", "<p></p>", id="nothing"),
    ],
)  # fmt: skip
def test_expression_is_escaped_for_its_context(source: str, drawn: str) -> None:
    assert draw(source, x="<a>\x1b") == drawn


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("<a href={{ x }}>", "an attribute must be quoted", id="expression"),
        pytest.param("<a href=x>", "an attribute must be quoted", id="word"),
        pytest.param("<a {{ x }}>", "an expression in a tag must be within quotes", id="attributes"),
        pytest.param("<{{ x }}>", "an expression in a tag must be within quotes", id="name"),
        pytest.param("<a {% block b %}{% endblock %}>", "block: must not begin in a tag", id="block"),
        pytest.param('<a title="{% include "b" %}">', "include: must not begin in a tag", id="include"),
        pytest.param("<script>{{ x }}</script>", "a script has no expressions", id="script"),
        pytest.param("<a href='/'", "ends in a tag", id="end"),
    ],
)
def test_template_with_an_open_attribute_is_refused(source: str, message: str) -> None:
    with pytest.raises(TemplateSyntaxError, match=message):
        pages.ENVIRONMENT.from_string(source)


def test_unknown_name_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'x' is undefined"):
        draw("{{ x }}")


def test_markup_is_no_value_of_an_attribute() -> None:
    with pytest.raises(TypeError, match="markup cannot be the value of an attribute"):
        draw('<a title="{{ x }}">', x=Markup("<b>"))


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_attribute_of_a_template_is_quoted(name: str) -> None:
    """The templates are compiled: `HtmlContext` refuses an attribute without quotes."""
    source = pages.ENVIRONMENT.get_template(name).filename
    assert source is not None
    text = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", Path(source).read_text(), flags=re.DOTALL)
    for tag in re.findall(r"<[a-zA-Z][^<>]*>", text):
        rest = re.sub(r'\s[-a-zA-Z0-9]+="[^"]*"', "", tag)
        assert re.fullmatch(r"<[a-zA-Z0-9]+(\s+(hidden|selected|checked|data-copy))*\s*/?>", rest), tag
        assert not re.search(r"\s(style|on[a-z]+)=", tag), "the content policy forbids it"


def test_markup_is_made_in_one_module() -> None:
    made = [path.name for path in UI.rglob("*.py") if re.search(r"\bMarkup\b|__html__", path.read_text())]
    assert made == ["markup.py"]
    unescaped = re.compile(r"\|\s*(safe|forceescape|xmlattr|tojson)\b|autoescape")
    assert [name for name in TEMPLATES if unescaped.search((UI / "templates" / name).read_text())] == []


def test_hidden_characters_are_named() -> None:
    assert text_markup(HOSTILE) == (
        '&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;<span class="ctl">ESC</span><span class="ctl">U+202E</span>'
    )
    assert attribute_text("a\x7fb\u2066") == "a[DEL]b[U+2066]"


def test_only_the_command_ui_loads_templates() -> None:
    script = (
        "import sys; from pumice.cli.main import COMMANDS, load_command\n"
        "for name in COMMANDS:\n    if name != 'ui': load_command(name)\n"
        "print(sorted({'jinja2', 'markupsafe', 'pumice.ui'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_templates_use_every_function_that_they_get() -> None:
    text = "\n".join((UI / "templates" / name).read_text() for name in TEMPLATES)
    names = [*pages.VALUES, *pages.FUNCTIONS]
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []
