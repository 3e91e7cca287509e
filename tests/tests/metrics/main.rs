//! `metrics-port`: values, formats, who may read, hostile clients, `/readyz`.

mod access;
mod hostile;
mod http;
mod ready;
mod state;
mod values;
