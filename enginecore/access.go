package enginecore

// ApplicationRules are the rules of ACL SETUSER that give a user of a server what an application needs: clients, workers, keepers,
// package admin and the command flowfabric, with the keys and channels of one prefix. It may call the library's functions, and
// not replace them. The rules take the place of all rights that the user had, and leave its passwords and whether it is on. The
// error is that of NewKeys for a bad prefix.
func ApplicationRules(prefix string) (string, error) {
	keys, err := NewKeys(prefix)
	if err != nil {
		return "", err
	}
	own := keys.Prefix() + ":*"
	return "resetkeys ~" + own + " resetchannels &" + own + " -@all " + applicationCommands, nil
}

// DeployerRules are the rules of a user that may also load and replace the function library. Its code runs with the rights of
// whoever calls it, so this user can do whatever all applications of the server can.
func DeployerRules(prefix string) (string, error) {
	rules, err := ApplicationRules(prefix)
	if err != nil {
		return "", err
	}
	return rules + " " + deployerCommands, nil
}
