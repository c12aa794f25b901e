use super::is_package_choice;

#[test]
fn a_package_can_be_chosen_in_each_way_that_cargo_knows() {
    for argument in ["-p", "-phaft-react", "--package", "--package=haft-react", "--workspace"] {
        assert!(is_package_choice(argument), "{argument}");
    }
    assert!(!is_package_choice("--profile") && !is_package_choice("pipeline"));
}
