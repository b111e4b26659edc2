import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ValidationFailed
from placet.protocol.skill import Skill, render_front_matter, render_handling_section, render_skill


def make_skill(**changes):
    given = {
        "name": "job-search",
        "description": "Finds jobs and applies to them.",
        "types": ("selection", "confirmation"),
        "info": "May ask which jobs to apply for.",
    }
    return Skill(**{**given, **changes})


def read_front_matter(text):
    opening, block, body = text.split("---\n")
    assert (opening, body) == ("", "")
    return yaml.safe_load(block)


def test_front_matter_declares_what_the_service_may_ask():
    declared = read_front_matter(
        render_front_matter(
            make_skill(
                review_base_url="https://jobs.example/review",
                timeout_default="24h",
                supports_inline_submit=True,
                hitl_required=True,
                supports_improvement_suggestions=True,
            )
        )
    )
    assert declared["name"] == "job-search"
    assert declared["metadata"]["hitl"] == {
        "supported": True,
        "hitl_required": True,
        "supports_inline_submit": True,
        "supports_improvement_suggestions": True,
        "types": ["selection", "confirmation"],
        "review_base_url": "https://jobs.example/review",
        "timeout_default": "24h",
        "info": "May ask which jobs to apply for.",
    }


def test_omitted_fields_are_not_declared():
    assert read_front_matter(render_front_matter(make_skill()))["metadata"]["hitl"] == {
        "supported": True,
        "types": ["selection", "confirmation"],
        "info": "May ask which jobs to apply for.",
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200).filter(str.strip))
def test_no_text_escapes_its_quotes(info):
    assert read_front_matter(render_front_matter(make_skill(info=info)))["metadata"]["hitl"]["info"] == info


@pytest.mark.parametrize(
    "info",
    [
        "---\nname: x",
        'a"\n    supported: false',
        "\u2028x",
        "a\u0085b",
        "a\u202eb\U000e0041",
        "😀",
        "#: {",
        "\x00",
    ],
)
def test_hostile_text_stays_one_value(info):
    block = render_front_matter(make_skill(info=info))
    assert len(block.splitlines()) == 9
    assert read_front_matter(block)["metadata"]["hitl"] == {
        "supported": True,
        "types": ["selection", "confirmation"],
        "info": info,
    }


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"info": "x" * 201}, "info must be 1 to 200"),
        ({"info": " "}, "info"),
        ({"info": "\ud800"}, "info"),
        ({"name": ""}, "name"),
        ({"description": "x" * 1025}, "description"),
        ({"types": ()}, "types"),
        ({"types": ("approval", "approval")}, "types"),
        ({"types": ("vote",)}, "types"),
        ({"types": ("x-",)}, "types"),
        ({"timeout_default": "soon"}, "duration"),
        ({"review_base_url": "http://jobs.example"}, "review_base_url"),
        ({"review_base_url": ""}, "review_base_url"),
    ],
)
def test_a_declaration_agents_could_not_use_is_refused(change, named):
    with pytest.raises(ValidationFailed, match=named):
        render_front_matter(make_skill(**change))


def test_custom_types_are_declared_too():
    assert read_front_matter(render_front_matter(make_skill(types=("x-vote",))))["metadata"]["hitl"][
        "types"
    ] == ["x-vote"]


def test_handling_tells_the_agent_to_forward_poll_and_stop():
    section = render_handling_section(make_skill())
    assert section.startswith("## HITL Handling\n")
    assert all(
        name in section for name in ("hitl.review_url", "hitl.prompt", "hitl.poll_url", "result.action")
    )
    assert "nothing was approved" in section
    assert "submit_url" not in section
    assert "Agent Guidelines" not in section


def test_inline_buttons_are_explained_only_where_offered():
    section = render_handling_section(make_skill(supports_inline_submit=True))
    assert "3. If the body has `hitl.submit_url`" in section
    assert "6. On `expired`" in section


def test_a_required_choice_comes_with_guidelines():
    section = render_handling_section(make_skill(hitl_required=True))
    assert "## Agent Guidelines" in section
    assert all(
        name in section for name in ("prefer_hitl", "skip_hitl", "HITL_CHOICE_REQUIRED", "VALIDATION_ERROR")
    )


def test_improvement_cycles_are_explained_and_bounded():
    assert "at most twice" in render_handling_section(make_skill(supports_improvement_suggestions=True))


def test_a_document_is_front_matter_and_body():
    document = render_skill(make_skill(description="Line one\n# not a heading"))
    assert document.startswith("---\nname: " + json.dumps("job-search"))
    assert "\n# job-search\n\nLine one # not a heading\n\n## HITL Handling\n" in document
    assert document.endswith("\n")
