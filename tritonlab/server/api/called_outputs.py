"""The outputs of one call of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.inference.infer_response import Outputs

if TYPE_CHECKING:
    from ...figures.rows_table import RowsTable


class CalledOutputs(Outputs[Any]):
    """Arrays by the names of their outputs."""

    def table(self, **more: Any) -> RowsTable:
        """Return the outputs as a table with a row for each row of the batch. `more`: arrays for further columns, such
        as the inputs, before them. JupyterLab lets it sort, filter and save; `to_csv(path)` writes all of it.
        """
        from ...figures.rows_table import RowsTable

        return RowsTable({**more, **self})
