use quote::quote;
use syn::{ItemStruct, parse_quote};

use super::Docs;

fn text(item: &ItemStruct) -> Option<String> {
    Docs::from_attributes(&item.attrs).text().map(|text| text.to_string())
}

#[test]
fn one_leading_space_is_removed() {
    let item = parse_quote! {
        /// Adds.
        ///
        ///  - indented
        #[derive(Clone)]
        ///
        struct Item;
    };
    assert_eq!(text(&item).as_deref(), Some(r#""Adds.\n\n - indented""#));
}

#[test]
fn leading_stars_of_a_block_comment_are_removed() {
    let item = parse_quote! {
        /** Adds
         *  - *two*
         *
         * integers. */
        struct Item;
    };
    assert_eq!(text(&item).as_deref(), Some(r#""Adds\n - *two*\n\nintegers.""#));
}

#[test]
fn stars_of_a_list_are_kept() {
    let item = parse_quote! {
        #[doc = "Adds\n* one\nand two"]
        struct Item;
    };
    assert_eq!(text(&item).as_deref(), Some(r#""Adds\n* one\nand two""#));
}

#[test]
fn empty_comment_has_no_text() {
    assert_eq!(
        text(&parse_quote!(
            #[doc(hidden)]
            struct Item;
        )),
        None
    );
    assert_eq!(
        text(&parse_quote!(
            #[doc = "  "]
            struct Item;
        )),
        None
    );
}

#[test]
fn macro_calls_are_joined_by_the_compiler() {
    let item = parse_quote! {
        /// See:
        #[doc = include_str!("page.md")]
        struct Item;
    };
    let expected = quote!(::core::concat!("See:", "\n", include_str!("page.md"), "\n").trim());
    assert_eq!(text(&item), Some(expected.to_string()));
}

#[test]
fn list_of_arguments_is_separated_from_the_text() {
    let item: ItemStruct = parse_quote! {
        /// Adds.
        ///
        /// # Arguments
        ///
        /// * `x` - The first.
        /// * y: The second,
        ///   or none.
        /// - `z`
        ///
        /// # Errors
        ///
        /// Never.
        struct Item;
    };
    assert_eq!(text(&item).as_deref(), Some(r#""Adds.\n\n# Errors\n\nNever.""#));
    let docs = Docs::from_attributes(&item.attrs);
    let of = |name: &str| docs.of_argument(&quote::format_ident!("{name}"));
    assert_eq!((of("x"), of("y"), of("z")), (Some("The first."), Some("The second, or none."), None));
    assert_eq!(docs.listed_arguments().map(|(name, _)| name).collect::<Vec<_>>(), ["x", "y", "z"]);
}
