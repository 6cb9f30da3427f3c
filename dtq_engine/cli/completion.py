"""`dtq completion`: the script by which a shell completes commands and options."""

import click
from click.shell_completion import get_completion_class

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import common
from dtq_engine.operator_shapes import CompletionShape

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print the script that lets a shell complete commands.")
@click.argument("shell", type=click.Choice(SHELLS))
@common
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the script that lets SHELL complete the commands and options of dtq.

    \b
    Example:
      source <(dtq completion bash)                                       # in ~/.bashrc
      source <(dtq completion zsh)                                        # in ~/.zshrc
      dtq completion fish > ~/.config/fish/completions/dtq.fish
    """
    console = ctx.ensure_object(Console)
    complete = get_completion_class(shell)
    assert complete is not None
    script = complete(ctx.find_root().command, {}, "dtq", "_DTQ_COMPLETE").source()
    if console.json:
        console.emit(CompletionShape(shell, script))
    else:
        console.say(script)
    return 0
