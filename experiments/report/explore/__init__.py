"""The data of the page that computes in the browser, each part taken from the functions of `theory` that it shows.

`formulas` are closed forms as JavaScript, `widths` tables of worth, `costs` polynomials, `pictures` plans as text.
"""
