"""Prompt templates for text-conditioned models."""


def check_template(prompts: object) -> None:
    if not isinstance(prompts, str) or prompts.count("{}") != 1:
        raise ValueError(
            f'prompts must be a string with one {{}} for the class, like "a photo of a {{}}", got {prompts!r}'
        )
