"""The text around a class, for models that are conditioned on text."""


def check_template(prompts: str) -> None:
    if prompts.count("{}") != 1:
        raise ValueError(f'prompts is a text with one {{}} for the class, like "a photo of a {{}}"; got {prompts!r}')
