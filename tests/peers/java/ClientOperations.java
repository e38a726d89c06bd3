import com.fasterxml.jackson.databind.JsonNode;

/** The Java producer, consumer and admin client, one operation a request. */
final class ClientOperations {
    Object run(String operation, JsonNode request) throws Exception {
        throw new IllegalArgumentException("unknown operation " + operation);
    }
}
