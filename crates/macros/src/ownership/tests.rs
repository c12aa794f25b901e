use syn::{Type, parse_quote};

use super::{borrows, owned};

#[test]
fn what_borrows_is_found_wherever_it_stands() {
    let borrowing: [Type; 5] = [
        parse_quote!(&str),
        parse_quote!(Option<&str>),
        parse_quote!((i64, &[u8])),
        parse_quote!(Cow<'a, str>),
        parse_quote!(&'static str),
    ];
    assert!(borrowing.iter().all(borrows));
    let owning: [Type; 3] =
        [parse_quote!(Vec<String>), parse_quote!(Cow<'static, str>), parse_quote!([u8; 4])];
    assert!(!owning.iter().any(borrows));
}

#[test]
fn the_owner_is_what_a_user_would_write() {
    let check = |ty: Type, expected| assert_eq!(owned(&ty), expected);
    check(parse_quote!(&str), "String");
    check(parse_quote!(&'static std::path::Path), "PathBuf");
    check(parse_quote!(&[&str]), "Vec<String>");
    check(parse_quote!(Option<&str>), "Option<String>");
    check(parse_quote!(HashMap<&str, &mut Vec<u8>>), "HashMap<String, Vec<u8>>");
}
