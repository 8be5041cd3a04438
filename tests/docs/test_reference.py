"""The reference is written from the code, whole: a changed command, error or public name changes its page in the same commit."""

import importlib.util
import inspect
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def loaded():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = loaded()


@pytest.mark.parametrize("name", sorted(REFERENCE.pages()))
def test_generated_page_equals_the_code(name):
    kept = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert kept == REFERENCE.pages()[name], "run: python tools/reference.py"


@pytest.mark.parametrize("room", sorted(REFERENCE.ROOMS))
def test_every_public_name_has_an_entry_with_a_description(room):
    module = import_module(room)
    page = REFERENCE.room_page(room, REFERENCE.ROOMS[room])
    for name in REFERENCE.public_names(module):
        thing = getattr(module, name)
        if REFERENCE.documented(thing):
            assert f"\n## {name}\n" in page
            assert len((inspect.getdoc(thing) or "").split()) > 1, name


def test_every_page_of_a_room_is_in_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f"reference/api/{name}" in navigation for name in REFERENCE.rooms())


def test_an_example_is_shown_as_code_and_not_as_a_quotation():
    def half(x: float) -> float:
        """Half of x*y.

        >>> half(3)
        1.5
        """
        return x / 2

    assert REFERENCE.markdown_of(half) == "Half of x\\*y.\n\n```pycon\n>>> half(3)\n1.5\n```"
    assert REFERENCE.signature("half", half) == "half(x: float) -> float"


def test_sections_of_a_docstring_are_lists_and_code_keeps_its_signs():
    def split(a_b: float) -> None:
        """Split `a_b`, not a_b.

        Args:
            a_b: A number
                over two lines.

        Raises:
            ValueError: It is <0.
        """

    assert REFERENCE.markdown_of(split) == (
        "Split `a_b`, not a\\_b.\n\n**Args:**\n\n- `a_b`: A number\n  over two lines.\n\n"
        "**Raises:**\n\n- `ValueError`: It is &lt;0."
    )
