"""The root of the command line, and how its errors reach a person."""

import sys

import click

from assent import __version__
from assent.cli.cases import case
from assent.cli.deliveries import deliveries
from assent.cli.keys import key
from assent.cli.migrate import migrate
from assent.cli.serve import demo, serve
from assent.cli.settings import settings
from assent.cli.signing import signing, verify
from assent.cli.skill import skill
from assent.errors import AssentError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Assent: where autonomous agents get human decisions.

    Begin with `assent demo`; run your own with `assent serve`.
    """


for command in (serve, demo, settings, key, case, deliveries, migrate, signing, verify, skill):
    cli.add_command(command)


def main() -> None:
    """Run a command; errors are one sentence on standard error and exit code 1."""
    try:
        cli.main(prog_name="assent", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except AssentError as error:
        click.echo(f"assent: {error.message}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(0)
