"""`placet skill`: print the SKILL.md of a service, or one for agents that run these commands."""

from importlib.resources import files
from pathlib import Path

import click

from placet.cli.database import load_settings
from placet.cli.options import config_option
from placet.protocol.service_paths import REVIEW_PAGES
from placet.protocol.skill import Skill, render_skill


@click.command()
@click.argument(
    "reader", type=click.Choice(["service", "agent"]), default="service", metavar="[service|agent]"
)
@config_option
@click.option("--name", help="Name of the skill. Default: from the service's name.")
@click.option("--description", help="What the skill does and when to use it.")
@click.option(
    "--type", "types", multiple=True, help="A review type that the service may ask for. Repeatable."
)
@click.option("--info", help="When and why people are asked, in at most 200 characters.")
@click.option("--required", is_flag=True, help="Agents must send prefer_hitl or skip_hitl.")
@click.option("--improvements", is_flag=True, help="The service returns improvement_suggestions.")
def skill(
    reader: str,
    config: Path | None,
    name: str | None,
    description: str | None,
    types: tuple[str, ...],
    info: str | None,
    required: bool,
    improvements: bool,
) -> None:
    """Print a SKILL.md.

    `placet skill service` prints the front matter and the HITL Handling section for agents that call this
    service. `placet skill agent` prints instructions for agents that run commands: how to use
    `placet request` and `placet ask`.
    """
    if reader == "agent":
        click.echo(files("placet.cli").joinpath("agent_skill.md").read_text("utf-8"), nl=False)
        return
    from placet.reviews.registry import REVIEW_TYPES

    settings = load_settings(config).settings
    document = render_skill(
        Skill(
            name=name or settings.service_name.lower().replace(" ", "-"),
            description=description or settings.service_description,
            types=types or tuple(REVIEW_TYPES),
            info=info or "May ask a person to decide before it goes on.",
            review_base_url=f"{settings.public_url}{REVIEW_PAGES}",
            timeout_default=settings.default_timeout,
            supports_inline_submit=True,
            hitl_required=required,
            supports_improvement_suggestions=improvements,
        )
    )
    click.echo(document)
