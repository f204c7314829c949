"""The paper's theory of compression and classification as functions of errors and tokens; nothing is run here."""
