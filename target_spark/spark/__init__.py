"""Start and configuration of Spark sessions: JVM, jars, Spark Connect and access protection."""
