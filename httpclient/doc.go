// Package httpclient calls the HTTP API of a FlowFabric server. Every operation of the API is a method of Client:
//
//	client, err := httpclient.New("https://flows.example.com", httpclient.Config{Token: token})
//	run, err := client.StartRun(ctx, "order", api.NewRun{ID: "1007", Input: input}, nil)
//	page, err := client.ListRuns(ctx, url.Values{"state": {"failed"}}, api.Paging{})
//	for event, err := range client.FollowRun(ctx, "order", run.Run, "") { … }
//
// The names of the object come first, the parameters of the query and the fields of the body follow. Package api has
// the structs, package fabrictype those that package runtime returns as well.
//
// Programs that can reach the engine itself use package runtime, which types inputs and results.
//
// Import it to call a server from Go without a connection to its engine.
package httpclient
