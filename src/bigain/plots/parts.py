"""What each part contributes to a faster decision: bars of one report, as HTML."""

from bigain.escape import html as escape
from bigain.experiments.report import Report, Row


def images_per_second(row: Row) -> float:
    """Images decided in a second, in the run of the report."""
    return 1 / ((row.seconds or float("inf")) * (row.evaluations or 1))


def first_line(report: Report) -> str:
    """The paper's protocol and the last row, on the same images."""
    paper, ours = (
        f"{images_per_second(row):.1f} images/s, {100 * row.accuracy.value:.0f} %"
        for row in (report.rows[0], report.rows[-1])
        if row.accuracy
    )
    n = report.rows[0].accuracy.n if report.rows[0].accuracy else 0
    return f"paper's protocol: {paper}; bigain fast: {ours}, same {n} images ({report.experiment['model']})"


def bars(report: Report) -> str:
    """A bar for each row: the FLOPs of a decision, with time, evaluations and accuracy in words."""
    whole = report.rows[0].decision_flops or 1.0
    return "\n".join(bar(row, whole) for row in report.rows)


def bar(row: Row, whole: float) -> str:
    share = 100 * (row.decision_flops or 0.0) / whole
    accuracy = f"{100 * row.accuracy.value:.0f} % right" if row.accuracy else ""
    words = f"{row.evaluations:.0f} evaluations, {images_per_second(row):.1f} images/s, {accuracy}"
    return (
        f'<div class="part"><span>{escape(row.label)}</span>'
        f'<div class="track" aria-hidden="true"><div style="width: {share:.1f}%"></div></div>'
        f"<span>{share:.0f} % of the FLOPs; {escape(words)}</span></div>"
    )
