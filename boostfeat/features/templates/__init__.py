"""The templates, each one plain function of what its arguments name (features.registry.ARGUMENTS).

They import no more of the package than the decorator and what teaches a template, so that the functions can stand elsewhere.
"""
