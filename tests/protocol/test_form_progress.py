import pytest

from placet.protocol.form_progress import FormProgress, compute_progress
from placet.protocol.forms import parse_form


def make_field(key, **more):
    return {"key": key, "label": key.title(), "type": "text", **more}


WIZARD = parse_form(
    {
        "steps": [
            {"title": "You", "fields": [make_field("name", required=True), make_field("nickname")]},
            {
                "title": "Contact",
                "fields": [
                    make_field("email", type="email", required=True),
                    make_field(
                        "phone",
                        required=True,
                        conditional={"field": "email", "operator": "neq", "value": "a@b.example"},
                    ),
                ],
            },
            {"title": "Check", "fields": []},
        ]
    }
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, FormProgress(1, 3, 0, 4)),
        ({"nickname": "A"}, FormProgress(1, 3, 1, 4)),
        ({"nickname": " "}, FormProgress(1, 3, 0, 4)),
        ({"name": "Ada"}, FormProgress(2, 3, 1, 4)),
        ({"name": "Ada", "email": "half@typed"}, FormProgress(2, 3, 1, 4)),
        ({"name": "Ada", "email": "a@b.example"}, FormProgress(3, 3, 2, 3)),
        ({"name": "Ada", "nickname": "A", "email": "a@b.example"}, FormProgress(3, 3, 3, 3)),
        ({"name": " ", "email": "x@y.example", "phone": "1"}, FormProgress(1, 3, 2, 4)),
    ],
)
def test_progress_counts_all_fields_a_person_sees(values, expected):
    assert compute_progress(WIZARD, values) == expected


@pytest.mark.parametrize(("told", "current"), [(2, 2), (0, 1), (-5, 1), (99, 3)])
def test_the_page_may_say_where_the_person_is(told, current):
    assert compute_progress(WIZARD, {}, current_step=told).current_step == current


def test_a_form_without_steps_is_step_one_of_one():
    form = parse_form({"fields": [make_field("a"), make_field("b")]})
    assert compute_progress(form, {}) == FormProgress(1, 1, 0, 2)


def test_progress_carries_numbers_only():
    found = compute_progress(WIZARD, {"name": "hunter2"})
    assert all(isinstance(number, int) for number in found)
    assert found._asdict() == {"current_step": 2, "total_steps": 3, "completed_fields": 1, "total_fields": 4}
