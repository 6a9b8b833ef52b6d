// Package server serves the HTTP API of FlowFabric: its operations under /api/v1, their OpenAPI
// document, health, and the web console of package console at the root.
//
//	engine, err := runtime.Open(ctx, "valkey://localhost:6379", runtime.OpenConfig{})
//	srv, err := server.New(server.Config{Engine: engine, Tokens: true})
//	err = srv.Run(ctx, "localhost:8080")
//
// A server stores nothing itself: any number of servers can serve one engine. It runs no activities and, unless
// configured otherwise, no keeper.
package server
