//! `Debug` for trait objects, which prints the name of the trait.
//!
//! If `Debug` were a supertrait, every trait object would contain code that prints all fields of its type, of the types
//! of these fields, and so on. That was 1 % of the program, and nothing printed most of it.

/// Implements `Debug` for the trait objects of these traits.
#[macro_export]
macro_rules! debug_as_name {
    ($($name:ident),+ $(,)?) => {$(
        impl ::core::fmt::Debug for dyn $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    trait Silent {}

    struct Quiet;

    impl Silent for Quiet {}

    debug_as_name!(Silent);

    #[test]
    fn a_trait_object_prints_the_name_of_its_trait() {
        let object: Box<dyn Silent> = Box::new(Quiet);
        assert_eq!(format!("{object:?}"), "Silent");
    }
}
