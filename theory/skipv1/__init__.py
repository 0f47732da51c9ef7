"""SkipV1Former: the theorem of its appendix A, what is wrong with it, and what is true."""
