"""The text around a class, for models that are conditioned on text."""


def check_template(prompts: object) -> None:
    if not isinstance(prompts, str) or prompts.count("{}") != 1:
        raise ValueError(
            f'prompts must be a text with one {{}} for the class, like "a photo of a {{}}", got {prompts!r}'
        )
