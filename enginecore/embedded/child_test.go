package embedded

func childMain(string) int { return 1 }
