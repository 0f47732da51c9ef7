"""The papers' orders of variants against the toy's."""
