//! Reload: a changed file cannot widen what a running process does until it is trusted.
