import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends a list of records and answers, for each, where it went or which exception it met. */
final class ProduceOperation {
    private ProduceOperation() {
    }

    static Object run(JsonNode request) throws Exception {
        Properties config = Json.config(request);
        String topic = request.get("topic").asText();
        List<Object> results = new ArrayList<>();
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, bytes, bytes)) {
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (JsonNode node : request.get("records")) {
                futures.add(producer.send(record(topic, node)));
            }
            for (Future<RecordMetadata> future : futures) {
                results.add(outcome(future));
            }
        }
        return results;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode node) {
        JsonNode partition = node.get("partition");
        JsonNode timestamp = node.get("timestamp");
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            topic,
            partition == null || partition.isNull() ? null : partition.asInt(),
            timestamp == null || timestamp.isNull() ? null : timestamp.asLong(),
            Json.bytes(node.get("key")),
            Json.bytes(node.get("value")));
        JsonNode headers = node.get("headers");
        if (headers != null) {
            for (JsonNode pair : headers) {
                record.headers().add(pair.get(0).asText(), Json.bytes(pair.get(1)));
            }
        }
        return record;
    }

    private static Map<String, Object> outcome(Future<RecordMetadata> future) throws Exception {
        Map<String, Object> result = new LinkedHashMap<>();
        try {
            RecordMetadata metadata = future.get();
            result.put("partition", metadata.partition());
            result.put("offset", metadata.offset());
            result.put("timestamp", metadata.timestamp());
        } catch (ExecutionException thrown) {
            result.put("error", thrown.getCause().getClass().getSimpleName());
            result.put("message", thrown.getCause().getMessage());
        }
        return result;
    }
}
