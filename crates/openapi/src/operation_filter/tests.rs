use reqwest::Method;
use serde_json::json;

use super::OperationFilter;
use crate::operation::OperationHead;

/// Returns the ids that `filter` selects from four operations.
fn selected(filter: &OperationFilter) -> Vec<&'static str> {
    let tagged = json!({"tags": ["pets"]});
    let operations = [
        ("listPets", Method::GET, "/pets", &tagged),
        ("addPet", Method::POST, "/pets", &tagged),
        ("getOwner", Method::GET, "/owners/{id}", &json!({})),
        ("listSitters", Method::HEAD, "/petsitters", &json!({})),
    ];
    let heads = operations.into_iter().map(|(id, method, path, operation)| {
        (id, OperationHead { id: id.to_owned(), method, path, operation })
    });
    heads.filter(|(_, head)| filter.selects(head)).map(|(id, _)| id).collect()
}

#[test]
fn criteria_are_combined() {
    let all = OperationFilter::default;
    assert_eq!(selected(&all()), ["listPets", "addPet", "getOwner", "listSitters"]);
    assert_eq!(selected(&all().include(["list*", "getOwner"])), ["listPets", "getOwner", "listSitters"]);
    assert_eq!(selected(&all().include(["list*"]).exclude(["*Sit*"])), ["listPets"]);
    assert_eq!(selected(&all().with_tags(["pets"]).read_only()), ["listPets"]);
    assert_eq!(selected(&all().with_methods(["post", "HEAD"])), ["addPet", "listSitters"]);
    assert_eq!(selected(&all().with_path_prefixes(["/pets"])), ["listPets", "addPet"]);
    assert_eq!(selected(&all().with_path_prefixes(["/owners/"])), ["getOwner"]);
    assert_eq!(selected(&all().read_only()), ["listPets", "getOwner", "listSitters"]);
}
