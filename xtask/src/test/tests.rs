use super::is_package_choice;

#[test]
fn package_options_of_cargo_are_recognised() {
    for argument in ["-p", "-phaft-react", "--package", "--package=haft-react", "--workspace"] {
        assert!(is_package_choice(argument), "{argument}");
    }
    assert!(!is_package_choice("--profile") && !is_package_choice("pipeline"));
}
