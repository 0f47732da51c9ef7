"""SkipV1Former: the theorem of its appendix A, its errors, and a corrected version."""
