//! Invisible text in names, descriptions and results is shown escaped, stripped or refused.
