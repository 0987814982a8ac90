from __future__ import annotations

from pumice.model import keys
from pumice.model.syntax import qualified_name_error


def test_every_key_is_well_formed_and_spelt_once() -> None:
    found = [value for name, value in vars(keys).items() if name.isupper()]
    assert [key for key in found if qualified_name_error(key)] == []
    assert len(found) == len(set(found))
