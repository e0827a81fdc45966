//! OAuth: discovery does not reach private addresses, and the browser gets an encoded URL.
