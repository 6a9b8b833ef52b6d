// Package transport has the connections of a session to the servers of an engine.
//
//   - [Transport] makes them and closes them: [Connect] returns once the servers are ready.
//   - A dialer makes connections in the background, so that a call ends with its context while one is made. A
//     connection
//     is used once the server has answered on it; replicas are refused and given up.
//   - [Hub] delivers published messages to any number of listeners over one connection.
//   - [Watches] are the connections on which blocking reads wait; [Tail] waits for entries of one stream.
package transport
