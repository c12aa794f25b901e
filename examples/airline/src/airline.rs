//! The flights, customers and bookings of an airline, and the tools that work with them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use haft_core::{Json, tools};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flight {
    /// For example `HF101`.
    pub flight_id: String,
    /// Format: `YYYY-MM-DD`.
    pub date: String,
    /// The IATA code of the airport.
    pub origin: String,
    pub destination: String,
    pub duration_hours: f64,
    pub price: f64,
}

/// A customer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Customer {
    pub user_id: String,
    pub name: String,
    pub email: String,
}

/// A booking.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Itinerary {
    pub confirmation_number: String,
    pub customer: Customer,
    pub flight: Flight,
}

/// A request to the staff.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ticket {
    pub ticket_id: String,
    pub request: String,
    pub customer: Customer,
}

pub struct Airline {
    flights: Vec<Flight>,
    customers: Vec<Customer>,
    desk: Mutex<Desk>,
}

/// The mutable state of the airline.
#[derive(Default)]
struct Desk {
    itineraries: Vec<Itinerary>,
    tickets: Vec<Ticket>,
    /// The number in the most recent booking or ticket id. Bookings and tickets share one sequence
    /// of numbers.
    numbers: u32,
}

#[tools]
impl Airline {
    /// Finds the flights between two airports on a date.
    #[tool(read_only)]
    fn fetch_flight_info(
        &self,
        /// Format: YYYY-MM-DD.
        date: String,
        /// The IATA code of the departure airport, for example SFO.
        origin: String,
        /// The IATA code of the arrival airport.
        destination: String,
    ) -> Result<Json<Vec<Flight>>, String> {
        let (origin, destination) = (origin.to_uppercase(), destination.to_uppercase());
        let of_day = |it: &&Flight| it.date == date && it.origin == origin && it.destination == destination;
        let found: Vec<_> = self.flights.iter().filter(of_day).cloned().collect();
        if found.is_empty() {
            let days = self.flights.iter().filter(|it| it.origin == origin && it.destination == destination);
            let mut days: Vec<_> = days.map(|it| it.date.as_str()).collect();
            days.dedup();
            return Err(format!(
                "no flight from {origin} to {destination} on {date}; there are some on: {}",
                days.join(", ")
            ));
        }
        Ok(Json(found))
    }

    /// Picks the best of several flights: the shortest, then the cheapest.
    #[tool(read_only)]
    fn pick_flight(
        &self,
        /// The ids of the flights to choose from.
        flight_ids: Vec<String>,
    ) -> Result<Json<Flight>, String> {
        let flights: Vec<_> = flight_ids.iter().map(|id| self.flight(id)).collect::<Result<_, _>>()?;
        let best = flights
            .into_iter()
            .min_by(|a, b| a.duration_hours.total_cmp(&b.duration_hours).then(a.price.total_cmp(&b.price)));
        best.map(|flight| Json(flight.clone())).ok_or_else(|| "the list of flights is empty".to_owned())
    }

    /// Finds a customer by name.
    #[tool(read_only)]
    fn get_user_info(&self, name: String) -> Result<Json<Customer>, String> {
        let known = self.customers.iter().find(|customer| customer.name.eq_ignore_ascii_case(name.trim()));
        known.map(|customer| Json(customer.clone())).ok_or_else(|| {
            let names: Vec<_> = self.customers.iter().map(|customer| customer.name.as_str()).collect();
            format!("no customer is named {name:?}; there are: {}", names.join(", "))
        })
    }

    /// Books a flight for a customer, and gives the confirmation number.
    #[tool]
    fn book_itinerary(&self, flight_id: String, user_name: String) -> Result<Json<Itinerary>, String> {
        let Json(customer) = self.get_user_info(user_name)?;
        let flight = self.flight(&flight_id)?.clone();
        let mut desk = self.desk();
        let itinerary = Itinerary { confirmation_number: desk.number("C"), customer, flight };
        desk.itineraries.push(itinerary.clone());
        Ok(Json(itinerary))
    }

    /// Finds a booking.
    #[tool(read_only)]
    fn fetch_itinerary(&self, confirmation_number: String) -> Result<Json<Itinerary>, String> {
        let desk = self.desk();
        let booked = desk.itineraries.iter().find(|it| it.confirmation_number == confirmation_number);
        booked.map(|itinerary| Json(itinerary.clone())).ok_or_else(|| no_booking(&confirmation_number))
    }

    /// Cancels a booking.
    #[tool]
    fn cancel_itinerary(&self, confirmation_number: String) -> Result<String, String> {
        let mut desk = self.desk();
        let place = desk.itineraries.iter().position(|it| it.confirmation_number == confirmation_number);
        desk.itineraries.remove(place.ok_or_else(|| no_booking(&confirmation_number))?);
        Ok(format!("{confirmation_number} is cancelled"))
    }

    /// Files a request to the staff. Use it if no other tool fits.
    #[tool]
    fn file_ticket(&self, user_request: String, user_name: String) -> Result<Json<Ticket>, String> {
        let Json(customer) = self.get_user_info(user_name)?;
        let mut desk = self.desk();
        let ticket = Ticket { ticket_id: desk.number("T"), request: user_request, customer };
        desk.tickets.push(ticket.clone());
        Ok(Json(ticket))
    }

    fn flight(&self, id: &str) -> Result<&Flight, String> {
        let found = self.flights.iter().find(|flight| flight.flight_id.eq_ignore_ascii_case(id));
        found.ok_or_else(|| format!("there is no flight {id:?}; look for flights first"))
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_booking(number: &str) -> String {
    format!("there is no booking {number:?}")
}

impl Desk {
    fn number(&mut self, kind: &str) -> String {
        self.numbers += 1;
        format!("{kind}{:04}", self.numbers)
    }
}

/// The default airline has a few flights and customers.
impl Default for Airline {
    fn default() -> Self {
        let flight = |flight_id: &str, date: &str, route: [&str; 2], duration_hours, price| Flight {
            flight_id: flight_id.to_owned(),
            date: date.to_owned(),
            origin: route[0].to_owned(),
            destination: route[1].to_owned(),
            duration_hours,
            price,
        };
        let (there, back) = (["SFO", "JFK"], ["JFK", "SFO"]);
        let customer = |user_id: &str, name: &str| Customer {
            user_id: user_id.to_owned(),
            name: name.to_owned(),
            email: format!("{}@example.com", name.to_lowercase()),
        };
        Self {
            flights: vec![
                flight("HF101", "2026-09-01", there, 5.5, 320.0),
                flight("HF103", "2026-09-01", there, 5.5, 280.0),
                flight("HF105", "2026-09-01", there, 9.0, 150.0),
                flight("HF107", "2026-09-02", there, 5.5, 300.0),
                flight("HF202", "2026-09-08", back, 6.0, 310.0),
            ],
            customers: vec![customer("1", "Ada"), customer("2", "Grace"), customer("3", "Alan")],
            desk: Mutex::default(),
        }
    }
}
