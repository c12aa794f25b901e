use quote::quote;
use syn::{Type, parse_quote};

use super::{borrows, borrows_non_static, mentions, owned_type_text};

#[test]
fn borrows_are_found_in_nested_types() {
    let borrowing: [Type; 6] = [
        parse_quote!(&str),
        parse_quote!(Option<&str>),
        parse_quote!((i64, &[u8])),
        parse_quote!(Cow<'a, str>),
        parse_quote!(Option<Cow<str>>),
        parse_quote!(&'static str),
    ];
    assert!(borrowing.iter().all(borrows));
    let owning: [Type; 3] =
        [parse_quote!(Vec<String>), parse_quote!(Cow<'static, str>), parse_quote!([u8; 4])];
    assert!(!owning.iter().any(borrows));
}

#[test]
fn static_borrows_are_not_short_lived() {
    let short: [Type; 3] =
        [parse_quote!(Result<&str, String>), parse_quote!(Cow<'_, str>), parse_quote!(Vec<&'a str>)];
    assert!(short.iter().all(borrows_non_static));
    let long: [Type; 2] =
        [parse_quote!(Result<&'static str, Box<dyn Error + 'static>>), parse_quote!(Cow<'static, str>)];
    assert!(!long.iter().any(borrows_non_static));
}

#[test]
fn name_in_a_longer_path_is_not_mentioned() {
    assert!(mentions(quote!(order: Order), "Order"));
    assert!(mentions(quote!(Vec<Option<Order>>), "Order"));
    assert!(!mentions(quote!(order: api::Order), "Order"));
    assert!(!mentions(quote!(orders: Orders), "Order"));
}

#[test]
fn owned_type_is_written_as_source_text() {
    let check = |ty: Type, expected| assert_eq!(owned_type_text(&ty), expected);
    check(parse_quote!(&str), "String");
    check(parse_quote!(&'static std::path::Path), "PathBuf");
    check(parse_quote!(&[&str]), "Vec<String>");
    check(parse_quote!(Option<&str>), "Option<String>");
    check(parse_quote!(Vec<Cow<'_, [u8]>>), "Vec<Vec<u8>>");
    check(parse_quote!(HashMap<&str, &mut Vec<u8>>), "HashMap<String, Vec<u8>>");
}
