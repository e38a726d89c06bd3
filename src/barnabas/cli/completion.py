"""`barnabas completion SHELL`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click

from barnabas.cli.output import Output, format_option

INSTALL = {
    "bash": 'eval "$(barnabas completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(barnabas completion zsh)"       # in ~/.zshrc, after compinit',
    "fish": "barnabas completion fish | source       # in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\nExamples:\n" + "\n".join(f"  {line}" for line in INSTALL.values()))
@click.argument("shell", type=click.Choice(sorted(INSTALL)))
@format_option
def completion(shell: str, out: Output) -> None:
    """Print the completion script for SHELL."""
    from click.shell_completion import get_completion_class

    from barnabas.cli.main import barnabas

    found = get_completion_class(shell)
    assert found is not None
    script = found(barnabas, {}, "barnabas", "_BARNABAS_COMPLETE").source()
    if out.is_text:
        print(script)
    else:
        out.data({"shell": shell, "install": INSTALL[shell].split("  ")[0], "script": script})
