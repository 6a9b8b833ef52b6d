// Package valueschema derives JSON Schemas from Go types, and holds JSON values against schemas.
//
// The schema of a type describes what encoding/json writes for it, and is stricter than what encoding/json reads:
// fields without omitempty or omitzero must be present, and there may be no others. A value that is to start a run is
// typed by people and programs that do not have the Go type, so a misspelt field must not be ignored. What is decoded
// anyway, such as the payload of a signal, has the schema of what encoding/json reads.
package valueschema
