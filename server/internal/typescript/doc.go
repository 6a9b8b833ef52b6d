// Package typescript writes the operations of the HTTP API as types of TypeScript: the schemas of the OpenAPI document,
// an input and an output for each operation, and the table of operations by name, with method and path.
package typescript
