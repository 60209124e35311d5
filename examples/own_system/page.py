"""Its section of the page."""

from tffapps.report.section import REJECTED, SCORES, Section, Table

PAGE = Section(
    "own_system", "Talk often or work long", "FedAvg with many short rounds beside few long ones.",
    (Table("comparison.csv", "Methods", "Scores on the test images after the last round.", SCORES), REJECTED),
)  # fmt: skip
